"""timm: every family in its smallest form, or narrowed and shortened where its constructor allows."""
import dataclasses
import importlib

import timm

from entry import ENTRIES, add, image


def family(name, size=32, **overrides):
    """A model by its registered name; `overrides` take the place of what the name says."""
    def build():
        module = importlib.import_module(timm.models.model_entrypoint(name).__module__)
        original = module.build_model_with_cfg
        module.build_model_with_cfg = lambda *args, **given: original(*args, **{**given, **overrides})
        try:
            return timm.create_model(name, pretrained=False, num_classes=5)
        finally:
            module.build_model_with_cfg = original
    add(name, "timm", build, image(size))


def made(name, module, function, *args, size=64, **options):
    """A model by a class or function of timm.models, where no registered name lets the sizes through."""
    add(name, "timm", lambda: getattr(importlib.import_module("timm.models." + module), function)(
        *args, num_classes=5, **options), image(size))


def byob(name, cfg_of, size, least=32, **changes):
    """A model of timm's bring-your-own-blocks families with every stage cut to one block."""
    def build():
        module = importlib.import_module("timm.models." + cfg_of)
        cfg = module.model_cfgs[name]

        def narrow(block):
            if not dataclasses.is_dataclass(block):
                return tuple(narrow(b) for b in block)[:2]
            return dataclasses.replace(block, d=1, c=max(block.c // 8, least))
        cfg = dataclasses.replace(cfg, blocks=tuple(narrow(b) for b in cfg.blocks), **changes)
        from timm.models.byobnet import ByobNet
        return ByobNet(cfg, num_classes=5, img_size=size)
    add(name, "timm", build, image(size))


# Models that timm itself made small.
for small in ("test_vit", "test_vit2", "test_vit3", "test_vit4"):
    family(small, img_size=32)
for small in ("test_byobnet", "test_efficientnet", "test_efficientnet_evos", "test_efficientnet_gn",
              "test_efficientnet_ln", "test_resnet", "test_nfnet", "test_convnext", "test_convnext2",
              "test_convnext3", "test_mambaout"):
    family(small, 64)
family("test_coatnet", 64, img_size=64)
family("test_maxvit", 64, img_size=64)
family("test_vit_relpos", 32, img_size=32)

# Convolutional networks.
SHORT = dict(layers=(1, 1, 1, 1), channels=(16, 24, 32, 48))
for resnet in ("resnet18d", "resnet10t", "resnetblur18", "resnetaa34d", "seresnet18"):
    family(resnet, 64, **SHORT)
for resnet in ("resnet50_gn", "ecaresnet26t", "resnetrs50", "skresnext50_32x4d", "resnest14d", "res2net50_26w_4s",
               "res2next50"):
    family(resnet, 64, **(dict(layers=(1, 1, 1, 1)) | ({"channels": (32, 64, 64, 64)}
                          if resnet not in ("skresnext50_32x4d",) else {})))
family("resnetv2_50", 64, layers=[1, 1, 1, 1], channels=(32, 64, 64, 64))
family("resnetv2_50x1_bit", 64, layers=[1, 1, 1, 1], channels=(128, 128, 128, 128))
family("resnetv2_50d_frn", 64, layers=[1, 1, 1, 1], channels=(32, 64, 64, 64))
family("regnetx_002", 64)
family("regnety_002", 64)
family("regnetz_005", 64)
family("legacy_seresnet18", 64)
family("densenet121", 64, growth_rate=8, block_config=(2, 2, 2, 2))
family("densenetblur121d", 64, growth_rate=8, block_config=(2, 2, 2, 2))
family("dla46x_c", 64)
family("dla60_res2net", 64, levels=(1, 1, 1, 1, 1, 1), channels=(16, 16, 32, 32, 64, 64))
family("dpn48b", 64, num_init_features=10, k_r=32, groups=8, k_sec=(1, 1, 1, 1), inc_sec=(4, 4, 4, 4))
made("hrnet_w18_small", "hrnet", "HighResolutionNet", dict(
    stem_width=16,
    stage1=dict(num_modules=1, num_branches=1, block_type="BOTTLENECK", num_blocks=(1,), num_channels=(8,), fuse_method="SUM"),
    stage2=dict(num_modules=1, num_branches=2, block_type="BASIC", num_blocks=(1, 1), num_channels=(4, 8), fuse_method="SUM"),
    stage3=dict(num_modules=1, num_branches=3, block_type="BASIC", num_blocks=(1, 1, 1), num_channels=(4, 8, 16), fuse_method="SUM"),
    stage4=dict(num_modules=1, num_branches=4, block_type="BASIC", num_blocks=(1, 1, 1, 1), num_channels=(4, 8, 16, 32), fuse_method="SUM")))
made("efficientnet_lite0", "efficientnet", "_gen_efficientnet_lite", "efficientnet_lite0", 0.25, 0.3)
made("tf_efficientnetv2_b0", "efficientnet", "_gen_efficientnetv2_base", "tf_efficientnetv2_b0", 0.25, 0.3)
made("efficientnet_cc_b0_4e", "efficientnet", "_gen_efficientnet_condconv", "efficientnet_cc_b0_4e", 0.25, 0.3)
made("mixnet_s", "efficientnet", "_gen_mixnet_s", "mixnet_s", 0.25)
family("mobilenetv2_035", 64)
family("mobilenetv3_small_050", 64)
family("lcnet_035", 64)
family("mobilenetv4_conv_small_035", 64)
made("mobilenetv4_hybrid_medium", "mobilenetv3", "_gen_mobilenet_v4", "mobilenetv4_hybrid_medium", 0.25)
made("fbnetv3_b", "mobilenetv3", "_gen_fbnetv3", "fbnetv3_b", 0.25)
family("hardcorenas_a", 64)
family("ghostnet_050", 64)
family("ghostnetv2_100", 64, width=0.3)
family("ghostnetv3_050", 64)
family("repghostnet_050", 64)
family("rexnet_100", 64, width_mult=0.4, depth_mult=0.4)
made("selecsls42", "selecsls", "SelecSls", dict(
    block=timm.models.selecsls.SelecSlsBlock, features=[(32, 0, 16, 16, True, 2), (16, 16, 16, 32, False, 1), (32, 0, 32, 32, True, 2)],
    head=[(32, 48, 3, 2), (48, 64, 1, 1)], num_features=64,
    feature_info=[dict(num_chs=32, reduction=2, module="stem.2")]))
family("inception_next_atto", 64, depths=(1, 1, 1, 1), dims=(16, 32, 48, 64))
made("xception41", "xception_aligned", "XceptionAligned", [
    dict(in_chs=64, out_chs=32, stride=2), dict(in_chs=32, out_chs=48, stride=2), dict(in_chs=48, out_chs=64, stride=1)])
made("nasnetalarge", "nasnet", "NASNetALarge", stem_size=8, channel_multiplier=2, num_features=96)
made("nf_resnet26", "nfnet", "NormFreeNet", timm.models.nfnet._nfres_cfg(
    depths=(1, 1, 1, 1), channels=(32, 64, 64, 64)))
family("nf_regnet_b0", 64)
family("cs3darknet_focus_s", 64)
family("ese_vovnet19b_slim_dw", 64)
family("hgnetv2_b0", 64)
family("mobileone_s0", 64)
family("repvgg_a0", 64)
byob("gcresnet33ts", "byobnet", 64)
byob("bat_resnext26ts", "byobnet", 256, least=128)
byob("resnet50_clip", "byobnet", 64)
byob("botnet26t", "byoanet", 64)
byob("halonet26t", "byoanet", 128)
byob("lambda_resnet26t", "byoanet", 64)
byob("lambda_resnet26rpt_256", "byoanet", 64)
family("tresnet_m", 64, layers=[1, 1, 1, 1], width_factor=0.25)
family("convmixer_768_32", 32, dim=24, depth=3)
family("starnet_s050", 64)
family("fasternet_t0", 64, embed_dim=16, feature_dim=64)
family("rdnet_tiny", 64, growth_rates=(8, 8, 8, 8), num_blocks_list=(1, 1, 1, 1), block_type=("Block", "Block", "BlockESE", "BlockESE"),
       is_downsample_block=(None, True, True, True), num_init_features=16)
family("convnextv2_atto", 64, depths=(1, 1, 1, 1), dims=(8, 16, 24, 32))
family("convnext_atto_ols", 64, depths=(1, 1, 1, 1), dims=(8, 16, 24, 32))
family("mambaout_femto", 64, depths=(1, 1, 1, 1), dims=(8, 16, 24, 32))

# Attention and mixing.
VIT = dict(img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=2)
for vit in ("vit_tiny_patch16_224", "deit_tiny_patch16_224", "deit_tiny_distilled_patch16_224", "deit3_small_patch16_224",
            "vit_base_patch16_siglip_224", "vit_small_patch14_reg4_dinov2", "beit_base_patch16_224",
            "eva02_tiny_patch14_224", "vit_small_patch16_dinov3", "vit_relpos_small_patch16_224",
            "vit_srelpos_small_patch16_224", "samvit_base_patch16_224", "cait_xxs24_224", "convit_tiny"):
    family(vit, **VIT)
family("vit_base_patch16_rope_mixed_224", 32, **VIT)
family("aimv2_1b_patch14_224", 32, **VIT)
family("xcit_nano_12_p16_224", 32, img_size=32, embed_dim=32, depth=2, num_heads=2)
family("tnt_s_patch16_224", 32, img_size=32, patch_size=8, embed_dim=24, inner_dim=8, depth=2, num_heads_outer=2)
family("crossvit_9_240", 48, img_size=48, patch_size=(12, 16), img_scale=(1.0, 2/3), embed_dim=[16, 32], depth=[[1, 1, 0], [1, 1, 0]], num_heads=[2, 2], mlp_ratio=[2, 2, 1])
family("pit_ti_224", 64, img_size=64, depth=(1, 1, 1), base_dims=(8, 8, 8), heads=(2, 2, 4))
for mixer in ("mixer_s32_224", "gmixer_12_224", "resmlp_12_224", "gmlp_ti16_224"):
    family(mixer, 32, img_size=32, patch_size=8, embed_dim=32, num_blocks=2)
family("sequencer2d_s", 56, img_size=56, layers=(1, 1, 1, 1), embed_dims=(16, 24, 24, 24), hidden_sizes=(4, 4, 4, 4),
       patch_sizes=(7, 2, 1, 1)) 
family("coat_tiny", 64, img_size=64, embed_dims=(16, 16, 16, 16), serial_depths=(1, 1, 1, 1), parallel_depth=1, num_heads=8)
family("coat_lite_tiny", 64, img_size=64, embed_dims=(16, 16, 16, 16), serial_depths=(1, 1, 1, 1), num_heads=8)
family("levit_128s", 64, img_size=64, embed_dim=(16, 24, 32), key_dim=8, num_heads=(2, 2, 2), depth=(1, 1, 1))
family("levit_conv_128s", 64, img_size=64, embed_dim=(16, 24, 32), key_dim=8, num_heads=(2, 2, 2), depth=(1, 1, 1))
family("pvt_v2_b0", 64, depths=(1, 1, 1, 1), embed_dims=(8, 16, 24, 32), num_heads=(1, 1, 2, 2))
family("pvt_v2_b2_li", 64, depths=(1, 1, 1, 1), embed_dims=(8, 16, 24, 32), num_heads=(1, 1, 2, 2))
META = dict(depths=(1, 1, 1, 1), dims=(8, 16, 24, 32))
for meta in ("poolformer_s12", "poolformerv2_s12", "convformer_s18"):
    family(meta, 64, **META)
family("caformer_s18", 64, depths=(1, 1, 1, 1), dims=(16, 32, 32, 64))
family("edgenext_xx_small", 64, depths=(1, 1, 2, 1), dims=(8, 16, 24, 32), heads=(2, 2, 2, 2))
family("efficientformer_l1", 224,  depths=(1, 1, 1, 2), embed_dims=(8, 16, 24, 32))
family("efficientformerv2_s0", 64, img_size=64, depths=(1, 1, 2, 2), embed_dims=(8, 16, 24, 32), num_vit=1)
family("efficientvit_b0", 64, widths=(8, 8, 16, 16, 32), depths=(1, 1, 1, 1, 1), head_dim=8, head_widths=(32, 32))
family("efficientvit_m0", 64, img_size=64, embed_dim=(16, 32, 48), key_dim=(4, 4, 4), depth=(1, 1, 1), num_heads=(2, 2, 2),
       window_size=(4, 4, 4))
family("fastvit_t8", 64, layers=(1, 1, 1, 1), embed_dims=(16, 16, 32, 32))
family("fastvit_sa12", 64, layers=(1, 1, 1, 1), embed_dims=(16, 16, 32, 32))
family("repvit_m0_9", 64, embed_dim=(8, 16, 24, 32), depth=(1, 1, 1, 1))
family("tiny_vit_5m_224", 64, embed_dims=(8, 16, 24, 32), depths=(1, 1, 1, 1), num_heads=(1, 2, 2, 2), window_sizes=(4, 4, 4, 2))
family("mobilevit_xxs", 64)
family("mobilevitv2_050", 64)
SWIN = dict(img_size=32, window_size=4, embed_dim=16, depths=(2, 2), num_heads=(2, 2))
for swin in ("swin_tiny_patch4_window7_224", "swinv2_tiny_window8_256", "swinv2_cr_tiny_ns_224"):
    family(swin, 32, **SWIN)
made("volo_d1_224", "volo", "VOLO", (1, 1, 1, 1), img_size=64, embed_dims=(16, 24, 24, 24), num_heads=(2, 2, 2, 2),
       stem_hidden_dim=8)
TWINS = dict(img_size=64, embed_dims=[8, 16, 24, 32], num_heads=[1, 2, 2, 2], depths=[1, 1, 2, 1])
family("twins_pcpvt_small", 64, **TWINS)
family("twins_svt_small", 64, wss=[4, 4, 2, 2], **TWINS)
family("davit_tiny", 64, depths=(1, 1, 1, 1), embed_dims=(8, 16, 16, 32), num_heads=(1, 2, 2, 2), window_size=2)
family("gcvit_xxtiny", 64, img_size=64, depths=(1, 1, 1, 1), num_heads=(2, 2, 2, 2), embed_dim=8, window_ratio=(16, 16, 16, 32))
family("focalnet_tiny_srf", 64, depths=(1, 1, 1, 1), embed_dim=8)
family("hiera_tiny_224", 64, img_size=(64, 64), embed_dim=16, num_heads=1, stages=(1, 1, 1, 1))
family("nest_tiny", 32, img_size=32, embed_dims=(8, 16, 32), num_heads=(1, 2, 2), depths=(1, 1, 1))
family("swiftformer_xs", 64, layers=[1, 1, 1, 1], embed_dims=[8, 16, 24, 32])
family("shvit_s1", 64, embed_dim=(32, 48, 64), partial_dim=(8, 12, 16), depth=(1, 1, 1))
family("visformer_tiny", 64, img_size=64, init_channels=8, embed_dim=32, depth=(1, 1, 1), num_heads=2)
family("efficientvim_m1", 64, embed_dim=(16, 24, 32), depths=(1, 1, 1), state_dim=(9, 4, 1))
family("lowformer_b0", 64, width_list=[8, 8, 16, 16, 32], depth_list=[0, 1, 1, 1, 1], head_widths=(32, 32))
family("iformer_t", 64, dims=(8, 16, 32, 32), depths=(1, 1, 3, 3), attn_groups=(0, 0, 1, 1))

for item in ENTRIES:
    if item.name in ("test_nfnet", "resnetv2_50x1_bit"):
        item.fold = False  # standardised weights would be folded beside the weights
